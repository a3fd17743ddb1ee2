package main

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/policy"
)

// tools shows the configuration to the API.
type tools struct{ config *config.Config }

// Tool implements api.Tools.
func (t tools) Tool(name string) (api.Tool, bool) {
	found, ok := t.config.Tools[name]
	return tool{found}, ok
}

// providerOf finds the provider of a managed operation for background work: nil if the tool is not configured any more.
func (t tools) providerOf(op effectonce.Operation) effectonce.Provider {
	if found, ok := t.config.Tools[op.Tool]; ok {
		return found.Provider
	}
	return nil
}

// tool is one configured tool.
type tool struct{ *config.Tool }

// Intent implements api.Tool.
func (t tool) Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error) {
	return t.Tool.Intent(args, meta)
}

// Compensation implements api.Compensator.
func (t tool) Compensation(op effectonce.Operation, meta map[string]string) (tool string, in effectonce.Intent, ok bool, err error) {
	return t.Tool.Compensation(op, meta)
}

// Provider implements api.Tool.
func (t tool) Provider() effectonce.Provider { return t.Tool.Provider }

// Explain implements api.Tool.
func (t tool) Explain(args json.RawMessage, meta map[string]string) (api.Reading, error) {
	r, err := t.Policy.Read(args, meta)
	if err != nil {
		return api.Reading{}, err
	}
	reading := api.Reading{Policy: t.Policy.Version, Template: t.Policy.Spec().IntentID}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		v := r.Values[name]
		reading.Arguments = append(reading.Arguments, argument(name, v))
	}
	return reading, nil
}

func argument(name string, v policy.Value) api.Argument {
	return api.Argument{Name: name, Kind: string(v.Kind), Given: v.Given, Normalised: v.Normalised, Why: v.Why}
}
