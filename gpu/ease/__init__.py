"""EASE (Steck 2019): item weights in closed form."""
