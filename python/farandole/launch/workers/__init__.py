"""What a job has on one host: the agent, and the workers that it or this room starts. The same here and behind ssh."""
