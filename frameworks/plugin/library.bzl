"""Libraries that a framework calls."""

load("//third_party/absl:flags.bzl", "embedded_library")

def plugin_library(framework, dep):
    """libfarandole_FRAMEWORK.so, which exports nothing but functions of that prefix and needs only the platform."""
    native.cc_binary(
        name = "farandole_%s_shared" % framework,
        linkopts = [
            "-Wl,--version-script=$(location //frameworks:farandole.lds)",
            "-Wl,-Bsymbolic",
            "-Wl,--exclude-libs,ALL",
            "-Wl,-z,defs",
            "-Wl,-z,nodelete",
        ],
        linkshared = True,
        visibility = ["//visibility:private"],
        deps = [
            dep,
            "//frameworks:farandole.lds",
        ],
    )
    embedded_library(
        name = "libfarandole_%s.so" % framework,
        binary = ":farandole_%s_shared" % framework,
    )
