"""Libraries that enter the user's process."""

load("//third_party/absl:flags.bzl", "embedded_library")

def exported_library(name, dep):
    """libNAME.so: what it has of ours and of abseil is inside of it, and nothing but our C functions is visible."""
    native.cc_binary(
        name = name + "_shared",
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
        name = "lib%s.so" % name,
        binary = ":%s_shared" % name,
    )
