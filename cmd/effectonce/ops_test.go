package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const someKey = "1089362e73af741988c09e096c32ce5adbc48a2384e559a0a43c0b88205dade2"

// daemonOf is a daemon that answers the same to every request whose path ends as named.
func daemonOf(t *testing.T, answers map[string]string) (url string, asked chan string) {
	t.Helper()
	asked = make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		for suffix, body := range answers {
			if strings.HasSuffix(r.URL.Path, suffix) {
				w.Write([]byte(body))
				return
			}
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestWatchEndsCleanlyWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	url, asked := daemonOf(t, map[string]string{
		"/events": `{"events": [{"seq": 1, "at": "2026-11-30T12:00:00Z", "kind": "recorded", "to": "in_progress"}]}`,
		someKey:   `{"key": "` + someKey + `", "state": "in_progress", "outcome": "in_progress", "version": 1}`,
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		<-asked
		<-asked
		cancel()
	}()
	var out, errs strings.Builder
	code := run(ctx, []string{"ops", "watch", someKey, "--server", url}, &terminal{out: &out, err: &errs})
	if code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if got := errs.String(); got != "effectonce: interrupted\n" {
		t.Errorf("it says %q", got)
	}
	if n := strings.Count(out.String(), "recorded"); n != 1 {
		t.Errorf("the event is told %d times:\n%s", n, out.String())
	}
}

func TestWhatIsNotADaemonIsNotTakenForOne(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]map[string]string{
		"another status": {},
		"no JSON":        {"/v1/operations": "<html>hello</html>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := daemonOf(t, answers)
			code, out, errs := answer(t, nil, "", "ops", "ls", "--server", url)
			if code != exitUnavailable || out != "" || !strings.Contains(errs, "not like effectonce") {
				t.Errorf("exit code %d, said %q and %q", code, out, errs)
			}
		})
	}
}

func TestAnAmbiguousPrefixIsRefusedWithWhatItCouldBe(t *testing.T) {
	t.Parallel()
	other := someKey[:12] + strings.Repeat("0", 52)
	url, _ := daemonOf(t, map[string]string{"/v1/operations": `{"operations": [{"key": "` + someKey + `"}, {"key": "` + other + `"}, {"key": "` + strings.Repeat("f", 64) + `"}]}`})
	code, _, errs := answer(t, nil, "", "ops", "show", someKey[:10], "--server", url)
	if code != 2 || !strings.Contains(errs, "the beginning of 2 keys") || !strings.Contains(errs, other) {
		t.Errorf("exit code %d, said %q", code, errs)
	}
}

// Words that a model wrote reach the terminal as words (see printed).
func TestAListShowsControlCharactersInsteadOfObeyingThem(t *testing.T) {
	t.Parallel()
	url, _ := daemonOf(t, map[string]string{"/v1/operations": `{"operations": [{"key": "` + someKey + `", "outcome": "unknown", "tool": "x", "intent_id": "a\u001b[2Jb", "reason": "\u001b]0;title\u0007"}]}`})
	code, out, _ := answer(t, nil, "", "ops", "ls", "--server", url)
	if code != 0 || strings.ContainsAny(out, "\x1b\x07") {
		t.Errorf("exit code %d, said %q", code, out)
	}
}
