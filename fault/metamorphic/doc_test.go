// Package metamorphic applies one random workload to every store and demands equal histories: memory, SQLite and PostgreSQL are
// given the same seeded sequence of commands under one clock, through the production guard, and every answer, every operation and
// every event must be the same in all of them, field by field. The stores share no code but the rules, so that what one of them
// gets wrong the others show.
//
//	go test ./fault/metamorphic                                                        a few seconds
//	go test ./fault/metamorphic -metamorphic.duration=10m -metamorphic.seed=$(date +%s)  longer
//	go test ./fault/metamorphic -metamorphic.plan="do:1:0:0 tick:4 ..."                  one workload again
//
// A workload that shows a difference is shortened for as long as it shows one, and printed as a plan.
package metamorphic_test
