//go:build unix && !race

package s16_test

const raced = false

var kinds = []kind{keyed, stripe, lookUp, strict, none}
