"""``farandole dashboard``: a page about one job, served to browsers of this host. It only reads."""
