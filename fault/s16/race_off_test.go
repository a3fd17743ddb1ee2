//go:build unix && !race

package s16_test

var kinds = []kind{keyed, stripe, lookUp, strict, none}
