"""``farandole status``, and the files by which it finds jobs."""
