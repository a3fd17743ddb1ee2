#!/bin/sh
# Installs the npm packages of a directory beside this script, as its package-lock.json has them. Nothing is done if they are installed
# already. No package runs scripts.
set -eu
cd "$(dirname "$0")/$1"
if [ -e node_modules/.package-lock.json ] && [ node_modules/.package-lock.json -nt package-lock.json ]; then
    exit 0
fi
npm ci --no-audit --no-fund --ignore-scripts
