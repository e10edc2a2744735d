"""Element types by their numbers in proto/farandole/v1/types.proto, and their sizes."""

UINT8, INT8, UINT16, INT16, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, BOOL, BFLOAT16 = range(11)

# Bytes of an element, by number.
SIZES = (1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2)
