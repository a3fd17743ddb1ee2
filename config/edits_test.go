package config

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

// S3.12: whatever is edited, however often and back again, and while daemons with old files go on, from an empty store on: a call that
// comes again, at any of them, has its effect once.
func TestNoEditExecutesACallAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		if why := executedAgain(t, rt, memorystore.Open(memorystore.Options{})); why != "" {
			rt.Fatal(why)
		}
	})
}

// A daemon that does not enter its identities lets calls execute again, and the test above finds that.
func TestDaemonsThatDoNotRegisterExecuteCallsAgain(t *testing.T) {
	t.Parallel()
	planted := rapid.Custom(func(rt *rapid.T) string {
		return executedAgain(t, rt, silentStore{memorystore.Open(memorystore.Options{})})
	})
	for seed := range 2000 {
		if why := planted.Example(seed); strings.Contains(why, "was executed 2 times") {
			return
		}
	}
	t.Error("nothing was found")
}

// silentStore enters nothing.
type silentStore struct{ effectonce.Store }

func (silentStore) Decide(_ context.Context, d effectonce.Decision) (effectonce.Decision, bool, error) {
	return d, true, nil
}

// executedAgain lets daemons with all kinds of files start and take calls, and says what was wrong.
func executedAgain(t *testing.T, rt *rapid.T, store effectonce.Store) string {
	templates := []string{"pay:{order}", "p:{order}", "{ticket}:{order}", "{order}/{ticket}", "pay:{order}:{meta.run}", "{meta.run}/{meta.step}/{order}"}
	normalisers := []string{"", "trim", "upper", "lower, ascii", "trim, upper", `digits`, `{capture: '^([a-zA-Z]-[0-9]+)$'}, upper`, `{capture: '([0-9]+)'}`}
	scopes := []string{"business", "run", "step"}
	orders := []string{"o-1", "O-1", "o-2", "p-1", "P-17"}
	rest := []string{"", `, retention: {identity: forever}, retry: {attempts: 2}`}
	var files [][]byte
	file := func() []byte {
		if i := rapid.IntRange(0, 2*len(files)).Draw(rt, "file"); i < len(files) {
			return files[i] // once more, or back again
		}
		template := rapid.SampledFrom(templates).Draw(rt, "intent_id")
		ticket := "{required: true}"
		if strings.Contains(template, "{ticket}") {
			ticket = "{kind: identity}"
		}
		files = append(files, fmt.Appendf(nil, `tools: {pay: {accept_review: true, scope: %s, intent_id: %q, arguments: {order: {kind: identity, normalise: [%s]}, ticket: %s}%s}}`,
			rapid.SampledFrom(scopes).Draw(rt, "scope"), template, rapid.SampledFrom(normalisers).Draw(rt, "normalise"), ticket, rapid.SampledFrom(rest).Draw(rt, "rest")))
		return files[len(files)-1]
	}
	guard := effectonce.New(store, effectonce.Options{})
	var daemons []*Tool
	start := func() error {
		c, err := Parse("effectonce.yaml", file(), environment)
		if err != nil {
			return err
		}
		if c.KeepIdentities(t.Context(), store, nil) != nil {
			return nil // refused: it executes nothing
		}
		c.Documents = documentsOf(store)
		daemons = append(daemons, c.Tools["pay"])
		return c.Keep(t.Context(), store.PutDocument)
	}
	for range rapid.IntRange(1, 3).Draw(rt, "at first") {
		if err := start(); err != nil {
			return err.Error()
		}
	}
	ran := map[string]int{}
	for range rapid.IntRange(1, 40).Draw(rt, "steps") {
		if rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
			if err := start(); err != nil {
				return err.Error()
			}
		}
		tool := daemons[rapid.IntRange(0, len(daemons)-1).Draw(rt, "daemon")]
		args, err := json.Marshal(map[string]string{"order": rapid.SampledFrom(orders).Draw(rt, "order"), "ticket": rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "ticket")})
		if err != nil {
			return err.Error()
		}
		meta := policy.Meta{"run": rapid.SampledFrom([]string{"r1", "r2"}).Draw(rt, "run"), "step": "s"}
		call := string(args) + meta["run"]
		in, err := tool.Intent(args, meta)
		if err != nil {
			continue // refused: nothing is executed
		}
		_, err = guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (string, error) { ran[call]++; return "", nil }))
		if err != nil && effectonce.CodeOf(err) != effectonce.CodePayloadMismatch {
			return fmt.Sprintf("%s: %v", call, err)
		}
		if ran[call] > 1 {
			return fmt.Sprintf("%s was executed %d times", call, ran[call])
		}
		if err == nil && len(ran) == 0 {
			return "nothing ran, and nothing was refused"
		}
	}
	return ""
}
