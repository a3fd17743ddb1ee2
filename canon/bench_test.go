package canon

import "testing"

const refund = `{"order_id":"ORD-4711","ticket_id":"T-9","payment_intent":"pi_3PqX1r2eZvKYlo2C","amount":480.00,"currency":"EUR","metadata":{"source":"agent"}}`

func BenchmarkSumRefund(b *testing.B) {
	v, err := Decode([]byte(refund), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Sum(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRefund(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(refund)))
	for b.Loop() {
		if _, err := Decode([]byte(refund), Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
