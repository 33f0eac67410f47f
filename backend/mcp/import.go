package mcp

import "regexp"

var secretKey = regexp.MustCompile(`(?i)(token|secret|passw|api_?key|access_?key|authorization|credential|private_?key)`)

func looksSecret(k, v string) bool {
	return secretKey.MatchString(k) && !variable.MatchString(v) && len(v) >= 8
}

type exposureListener struct{}
