"""What the entries have left: ids, ratings, strengths, attributes of items. Independent of any model."""
