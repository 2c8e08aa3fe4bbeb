"""Values to text: same input, same bytes."""
