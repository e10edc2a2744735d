"""What the front ends of all frameworks share."""
