#!/bin/sh
# What was acknowledged last is there, or something newer, and is whole.
set -eu
last=$(tail -n 1 "$TANTALUM_ACKS")
[ -e state ] || { [ -z "$last" ]; exit; }
[ "$(stat -c %s state)" = 4096 ]
[ "$(head -c 1 state)" -ge "${last:-0}" ]
[ -z "$(tr -d "$(head -c 1 state)" < state)" ]
