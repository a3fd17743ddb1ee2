//go:build !race

package sim

// raced says that the race detector is on, which makes everything ten times as slow.
const raced = false
