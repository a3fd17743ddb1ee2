package main

type probeCommand struct{}

func (probeCommand) Run() error          { return nil }
func runProbeChild([]string) (bool, int) { return false, 0 }
