"""The switch between Debian's shared abseil and abseil compiled from source."""

def _flag_impl(ctx):
    return []

# A flag of our own; skylib's would pull its package in for five lines.
bool_setting = rule(
    implementation = _flag_impl,
    build_setting = config.bool(flag = True),
)

def _embedded_transition_impl(settings, attr):
    return {
        "//third_party/absl:from_source": True,
        "//command_line_option:copt": settings["//command_line_option:copt"] + [
            "-fPIC",
            "-fvisibility=hidden",
        ],
    }

_embedded_transition = transition(
    implementation = _embedded_transition_impl,
    inputs = ["//command_line_option:copt"],
    outputs = ["//third_party/absl:from_source", "//command_line_option:copt"],
)

def _embedded_impl(ctx):
    # An attribute with a transition is a list.
    src = ctx.attr.binary[0][DefaultInfo].files.to_list()[0]
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = out, target_file = src)
    return [DefaultInfo(files = depset([out]), executable = out)]

# The same cc_binary, built for a process that is not ours: everything static and hidden.
embedded_library = rule(
    implementation = _embedded_impl,
    attrs = {
        "binary": attr.label(cfg = _embedded_transition),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
