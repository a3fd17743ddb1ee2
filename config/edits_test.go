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

// S3.12: whatever is edited, however often and back again, and while daemons with old files go on: a call that comes again, at any of
// them, has its effect once.
func TestNoEditExecutesACallAgain(t *testing.T) {
	t.Parallel()
	templates := []string{"pay:{order}", "p:{order}", "{ticket}:{order}", "{order}/{ticket}", "pay:{order}:{meta.run}", "{meta.run}/{meta.step}/{order}"}
	normalisers := []string{"", "trim", "upper", "lower, ascii", "trim, upper", `digits`, `{capture: '^([a-zA-Z]-[0-9]+)$'}, upper`, `{capture: '([0-9]+)'}`}
	scopes := []string{"business", "run", "step"}
	orders := []string{"o-1", "O-1", "o-2", "p-1", "P-17"}
	rest := []string{"", `, retention: {identity: forever}, retry: {attempts: 2}`}
	file := func(t *rapid.T) []byte {
		template := rapid.SampledFrom(templates).Draw(t, "intent_id")
		ticket := "{required: true}"
		if strings.Contains(template, "{ticket}") {
			ticket = "{kind: identity}"
		}
		return fmt.Appendf(nil, `tools: {pay: {accept_review: true, scope: %s, intent_id: %q, arguments: {order: {kind: identity, normalise: [%s]}, ticket: %s}%s}}`,
			rapid.SampledFrom(scopes).Draw(t, "scope"), template, rapid.SampledFrom(normalisers).Draw(t, "normalise"), ticket, rapid.SampledFrom(rest).Draw(t, "rest"))
	}
	rapid.Check(t, func(rt *rapid.T) {
		store := memorystore.Open(memorystore.Options{})
		guard := effectonce.New(store, effectonce.Options{})
		var daemons []*Tool
		start := func() {
			c, err := Parse("effectonce.yaml", file(rt), environment)
			if err != nil {
				rt.Fatal(err)
			}
			err = c.KeepIdentities(t.Context(), store, nil)
			if err != nil {
				return // refused: it executes nothing
			}
			if err := c.Keep(t.Context(), store.PutDocument); err != nil {
				rt.Fatal(err)
			}
			c.Documents = documentsOf(store)
			daemons = append(daemons, c.Tools["pay"])
		}
		start()
		ran := map[string]int{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			// The first call decides what the first file was, so that no two daemons begin with different ones.
			if len(ran) > 0 && rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
				start()
			}
			tool := daemons[rapid.IntRange(0, len(daemons)-1).Draw(rt, "daemon")]
			args, err := json.Marshal(map[string]string{"order": rapid.SampledFrom(orders).Draw(rt, "order"), "ticket": rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "ticket")})
			if err != nil {
				rt.Fatal(err)
			}
			meta := policy.Meta{"run": rapid.SampledFrom([]string{"r1", "r2"}).Draw(rt, "run"), "step": "s"}
			call := string(args) + meta["run"]
			in, err := tool.Intent(args, meta)
			if err != nil {
				continue // refused: nothing is executed
			}
			_, err = guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (string, error) { ran[call]++; return "", nil }))
			if err != nil && effectonce.CodeOf(err) != effectonce.CodePayloadMismatch {
				rt.Fatalf("%s: %v", call, err)
			}
			if ran[call] > 1 {
				rt.Fatalf("%s was executed %d times", call, ran[call])
			}
			if err == nil && len(ran) == 0 {
				rt.Fatal("nothing ran, and nothing was refused")
			}
		}
	})
}
