"""The recognisers of networks, and of networks whose holes other recognisers fill."""
