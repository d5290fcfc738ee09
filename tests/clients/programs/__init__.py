"""Programs as users of other clients write them: ``python FILE URL MODEL`` prints what came."""
