#!/bin/sh
# Installs the Stripe double beside this script, as package-lock.json has it. Nothing is done if that is installed already.
set -eu
cd "$(dirname "$0")"
if [ -e node_modules/.package-lock.json ] && [ node_modules/.package-lock.json -nt package-lock.json ]; then
    exit 0
fi
npm ci --no-audit --no-fund --ignore-scripts
