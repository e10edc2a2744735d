"""What front ends and launcher share. Builds on nothing of ours."""
