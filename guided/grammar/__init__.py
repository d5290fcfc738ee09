"""The intermediate forms between front ends and recognisers."""
