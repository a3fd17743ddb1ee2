//go:build unix && race

package s16_test

const raced = true

// Under the race detector each process takes many times longer to start, and what differs between kinds is values, not
// goroutines: two kinds do.
var kinds = []kind{stripe, none}
