// Loaded before a double: it ends with its standard input, so that none outlives its test.
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
