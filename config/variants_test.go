package config

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

// S2.3, S3.3, S3.8, S16.11: a model that writes the ids of one refund in other ways gets one refund. Each way is the same intent, is
// refused, or is held for a person as a possible repeat.
func TestNoSpellingOfTheExamplesRefundLeavesTheBankTwice(t *testing.T) {
	t.Parallel()
	stripe, err := twin.New(twin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stripe.Close() })
	web := httptest.NewServer(stripe)
	t.Cleanup(web.Close)
	path := filepath.Join("..", "examples", "refund", "effectonce.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "http://127.0.0.1:7190", web.URL, 1)
	if text == string(data) {
		t.Fatal("the example's provider is somewhere else")
	}
	// With the example's own limit the third would be refused for the total, and not held for what it looks like.
	unlimited := strings.Replace(text, "max: 100000}", "max: 10000000}", 1)
	if unlimited == text {
		t.Fatal("the example's limit is another one")
	}
	tool := mustParse(t, path, []byte(unlimited)).Tools["stripe.refund"]
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})

	type refund struct{ Order, Ticket, Payment, Currency string }
	ask := func(r refund) (effectonce.Outcome, error) {
		args, err := json.Marshal(map[string]any{
			"order_id": r.Order, "ticket_id": r.Ticket, "payment_intent": r.Payment, "amount": "480.00", "currency": r.Currency, "reason": "in other words",
		})
		if err != nil {
			t.Fatal(err)
		}
		in, err := tool.Intent(args, nil)
		if err != nil {
			return effectonce.Outcome{}, err
		}
		return guard.Do(t.Context(), in, tool.Provider)
	}
	usual := refund{"o-8812", "t-5521", "pi_1", "EUR"}
	first, err := ask(usual)
	if err != nil {
		t.Fatal(err)
	}

	const same, held, refused = effectonce.Code(""), effectonce.CodeHeld, effectonce.CodeInvalid
	// Each way of writing is tried on the order, on the ticket, and on both.
	for name, c := range map[string]struct {
		write func(string) string
		want  effectonce.Code
	}{
		"as it was":             {func(s string) string { return s }, same},
		"upper case":            {strings.ToUpper, same},
		"spaces around":         {func(s string) string { return " " + s + "\t" }, same},
		"no-break space around": {func(s string) string { return "\u00a0" + s }, same},
		"zero width space":      {func(s string) string { return s + "\u200b" }, refused},
		"zero width joiner":     {func(s string) string { return s[:1] + "\u200d" + s[1:] }, refused},
		"soft hyphen":           {func(s string) string { return s[:2] + "\u00ad" + s[2:] }, refused},
		"byte order mark":       {func(s string) string { return "\ufeff" + s }, refused},
		"right to left mark":    {func(s string) string { return s + "\u200f" }, refused},
		"Cyrillic letter":       {func(s string) string { return strings.NewReplacer("o", "о", "t", "т").Replace(s) }, refused},
		"fullwidth":             {fullwidth, refused},
		"other dash":            {func(s string) string { return strings.Replace(s, "-", "–", 1) }, refused},
		"no dash":               {func(s string) string { return strings.Replace(s, "-", "", 1) }, refused},
		"full stop":             {func(s string) string { return s + "." }, refused},
		"number sign":           {func(s string) string { return "#" + s }, refused},
		"space inside":          {func(s string) string { return strings.Replace(s, "-", "- ", 1) }, refused},
		"a word in front":       {func(s string) string { return "order " + s }, refused},
		"a second one":          {func(s string) string { return s + " " + s }, refused},
		"other digits":          {func(s string) string { return strings.Replace(s, "1", "\u0661", 1) }, refused},
		"a zero in front":       {func(s string) string { return strings.Replace(s, "-", "-0", 1) }, held},
		"another number":        {func(s string) string { return s + "7" }, held},
	} {
		for field, r := range map[string]refund{
			"order":  {c.write(usual.Order), usual.Ticket, usual.Payment, usual.Currency},
			"ticket": {usual.Order, c.write(usual.Ticket), usual.Payment, usual.Currency},
			"both":   {c.write(usual.Order), c.write(usual.Ticket), usual.Payment, usual.Currency},
		} {
			out, err := ask(r)
			if (err == nil) != (c.want == same) || (err != nil && effectonce.CodeOf(err) != c.want) {
				t.Errorf("%s, %s: %v, want %q", field, name, err, c.want)
			}
			if c.want == same && (out.Operation.Key != first.Operation.Key || !out.Replayed) {
				t.Errorf("%s, %s: another operation: %+v", field, name, out)
			}
		}
	}
	for name, r := range map[string]refund{
		"payment with a zero width space": {usual.Order, "t-9", "pi_1\u200b", "EUR"},
		"payment with a space inside":     {usual.Order, "t-9", "pi _1", "EUR"},
		"currency that scales":            {usual.Order, "t-9", "pi_1", "JPY"},
		"currency that looks alike":       {usual.Order, "t-9", "pi_1", "ЕUR"},
	} {
		if _, err := ask(r); effectonce.CodeOf(err) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l := stripe.Ledger(); l.Count != 1 {
		t.Errorf("%d refunds left the bank", l.Count)
	}
}

// fullwidth writes ASCII in the forms that East Asian input gives.
func fullwidth(s string) string {
	return strings.Map(func(r rune) rune { return r - '!' + '\uff01' }, s)
}
