package policy

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// S2.3, S4.3, S16.11: a model that decides again in other words changes nothing that counts.
func TestRewordingFreeTextChangesNothing(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, refund())
	rapid.Check(t, func(t *rapid.T) {
		args := map[string]any{
			"order_id":       rapid.StringMatching(`[A-Za-z0-9äß:/%{} -]{0,8}x`).Draw(t, "order"),
			"ticket_id":      rapid.IntRange(1, 1<<40).Draw(t, "ticket"),
			"payment_intent": "pi_" + rapid.StringMatching(`[A-Za-z0-9äß:/%{}-]{0,8}`).Draw(t, "payment"),
			"amount":         rapid.IntRange(0, 1e9).Draw(t, "amount"),
		}
		read := func(reason any) (Reading, error) {
			args["reason"] = reason
			b, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			return tool.Read(b, nil)
		}
		one, errOne := read(rapid.String().Draw(t, "words"))
		other, errOther := read(rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }),
			rapid.Just(any([]any{"a", nil})),
			rapid.Just(any(nil)),
		).Draw(t, "other words"))
		if errOne != nil || errOther != nil {
			t.Fatalf("refused: %v, %v", errOne, errOther)
		}
		if one.IntentID != other.IntentID || one.Fingerprint != other.Fingerprint || string(one.Business) != string(other.Business) ||
			string(one.Template) != string(other.Template) || one.Twin != other.Twin || one.Resource != other.Resource {
			t.Fatalf("%s became %s", one.Business, other.Business)
		}
	})
}

// S3.3: no two different tuples give one intent id.
func TestDifferentTuplesNeverGiveOneIntentID(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, Spec{Name: "t", IntentID: "x{a}:{b}-/{meta.c}y", Arguments: map[string]Argument{
		"a": {Kind: KindIdentity}, "b": {Kind: KindIdentity},
	}})
	component := rapid.StringOfN(rapid.SampledFrom([]rune("a1:/-%{}xy é\u0301\u00a0\u200b2F3A")), 1, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (Reading, error) {
			a, b, c := component.Draw(t, label+" a"), component.Draw(t, label+" b"), component.Draw(t, label+" c")
			args, err := json.Marshal(map[string]string{"a": a, "b": b})
			if err != nil {
				t.Fatal(err)
			}
			return tool.Read(args, Meta{"c": c})
		}
		one, errOne := draw("one")
		other, errOther := draw("other")
		if errOne != nil || errOther != nil {
			return // white space around it, or a character that cannot be seen
		}
		if one.IntentID == other.IntentID && string(one.Business) != string(other.Business) {
			t.Fatalf("%s and %s are both %q", one.Business, other.Business, one.IntentID)
		}
	})
}

// S3.3: the same, over every pair of a small alphabet that has all the separators.
func TestNoTwoPairsOfASmallAlphabetShareAnIntentID(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, Spec{Name: "t", IntentID: "{a}:{b}", Arguments: map[string]Argument{
		"a": {Kind: KindIdentity}, "b": {Kind: KindIdentity},
	}})
	var words []string
	letters := []string{"a", ":", "/", "%", "3", "A", "{"}
	for _, x := range letters {
		words = append(words, x)
		for _, y := range letters {
			words = append(words, x+y)
		}
	}
	seen := map[string]string{}
	for _, a := range words {
		for _, b := range words {
			args, err := json.Marshal(map[string]string{"a": a, "b": b})
			if err != nil {
				t.Fatal(err)
			}
			r, err := tool.Read(args, nil)
			if err != nil {
				t.Fatal(err)
			}
			pair := fmt.Sprintf("%q %q", a, b)
			if before, ok := seen[r.IntentID]; ok {
				t.Fatalf("%s and %s are both %q", before, pair, r.IntentID)
			}
			seen[r.IntentID] = pair
		}
	}
}

// S4.2: what Read calls canonical is read again as itself where no normaliser changes types.
func TestBusinessArgumentsAreStable(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("trim", "lower")}}})
	rapid.Check(t, func(t *rapid.T) {
		args, err := json.Marshal(map[string]any{"a": rapid.String().Draw(t, "a"), "b": rapid.Float64Range(-1e15, 1e15).Draw(t, "b")})
		if err != nil {
			t.Fatal(err)
		}
		one, err := tool.Read(args, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := tool.Read(one.Business, nil)
		if err != nil || again.Fingerprint != one.Fingerprint {
			t.Fatalf("%s became %s (%v)", one.Business, again.Business, err)
		}
	})
}
