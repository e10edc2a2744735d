"""Fuzz targets: LLVMFuzzerTestOneInput, real inputs in corpus/NAME."""

def cc_fuzz_target(name, srcs, deps):
    """Makes NAME_fuzz, the target as a library, and NAME_replay_test, which plays its corpus."""
    native.cc_library(
        name = name + "_fuzz",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        deps = deps,
    )
    native.cc_test(
        name = name + "_replay_test",
        size = "small",
        args = ["tests/fuzz/corpus/" + name],
        data = native.glob(["corpus/" + name + "/*"]),
        deps = [
            ":" + name + "_fuzz",
            ":replay_main",
        ],
    )
