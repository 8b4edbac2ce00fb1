# Recipes for `just` (https://just.systems), which is optional: each is one command that also works without it.

# what there is
default:
    @just --list

# format, lints and tests of what has changed, within three minutes after a build
check *COMMIT:
    scripts/check {{COMMIT}}

# the tests of one crate: just test ftl
test CRATE *ARGS:
    cargo test --release -p {{ if CRATE == "device" { "tantalum" } else { "tantalum-" + CRATE } }} {{ARGS}}

# format and lints of everything
lint:
    scripts/lint

# licences, sources and known flaws of the dependencies; needs cargo-deny
deny:
    cargo deny --all-features check

# end-to-end tests, or some of them: just e2e --only mount
e2e *ARGS:
    cargo xtask e2e {{ARGS}}

# everything that a change must pass; installs system packages that are missing
ci:
    .ci/run
