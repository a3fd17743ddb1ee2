package main

type policyCommand struct {
	Check policyCheckCommand `cmd:"" help:"Check effectonce.yaml whole: every problem with its place and remedy."`
}
