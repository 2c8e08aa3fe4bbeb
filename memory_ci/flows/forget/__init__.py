"""The corridor of forgetting: where something stands, what is done about it here, and the steps that are left."""
