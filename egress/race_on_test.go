//go:build race

package egress_test

// raceDetector says that everything is several times slower.
const raceDetector = true
