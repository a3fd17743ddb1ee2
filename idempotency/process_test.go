package idempotency_test

const roleVar = "EFFECTONCE_IDEMPOTENCY_TEST_ROLE"

func play(string) int { return 2 }
