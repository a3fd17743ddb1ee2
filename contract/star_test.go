package contract

import "testing"

// A star stands for an ending or a beginning, and for nothing in an empty value.
func TestStars(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		got, want       string
		request, answer bool
	}{
		{"https://q/orders.fifo", "*.fifo", true, true},
		{"https://q/orders", "*.fifo", false, false},
		{"orders.fifo/x", "*.fifo", false, false},
		{"com.amazonaws.sqs#QueueDoesNotExist", "*#QueueDoesNotExist", true, true},
		{"NotQueueDoesNotExist", "*#QueueDoesNotExist", false, false},
		{"anything", "*", true, true},
		{"", "*", false, false},
		{"", "*.fifo", false, false},
		{"DescribeInstances", "Describe*", true, false},
		{"*", "*", true, true},
	} {
		if got := matchesOne(tt.got, []string{tt.want}); got != tt.request {
			t.Errorf("request: %q against %q is %t", tt.got, tt.want, got)
		}
		if got := allowed(tt.got, []string{tt.want}); got != tt.answer {
			t.Errorf("answer: %q against %q is %t", tt.got, tt.want, got)
		}
	}
}
