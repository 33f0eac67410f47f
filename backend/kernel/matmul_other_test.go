//go:build purego || (!amd64 && !arm64)

package kernel

func matmulForms() map[string]matmul {
	return nil
}
