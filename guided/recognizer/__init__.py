"""Run-time recognisers over bytes: states, transitions and the way out. No tokens here."""
