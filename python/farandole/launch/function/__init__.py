"""``farandole.run``: one Python function as several processes."""
