"""The launcher: ``farandole run``. Imports neither a framework nor the library."""
