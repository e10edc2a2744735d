"""The C ABI as Python: libfarandole.so, its codes, submissions and waits."""
