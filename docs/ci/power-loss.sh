#!/bin/sh
# The same for any other machine.
set -eu
rm -rf findings findings.html
tantalum crash run --minutes 10 --save findings --report findings.html --json \
    --check ./tests/verify.sh -- ./my-program {} > outcome.json || status=$?
case ${status:-0} in
    0) echo "survives power loss" ;;
    1) echo "does not: see findings.html, and tantalum crash replay findings/finding-1" ;;
    *) echo "could not be run" ;;
esac
exit ${status:-0}
