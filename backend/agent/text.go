package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// jsonText encodes a value whose encoding can't fail.
func jsonText(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// firstOf returns the first number that is not 0, or 0.
func firstOf[T int | int64](list ...T) T {
	for _, n := range list {
		if n != 0 {
			return n
		}
	}
	return 0
}

// least returns the smaller of two limits, where 0 means no limit.
func least[T int | int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
