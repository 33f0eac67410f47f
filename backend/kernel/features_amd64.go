//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

// Features of the processor and the operating system, detected once. hasAVX512 is the set that
// every server core since 2017 has; hasPopcnt512 adds counting bits in a whole register.
var (
	hasAVX2      = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512    = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL
	hasPopcnt512 = hasAVX512 && cpu.X86.HasAVX512VPOPCNTDQ
)

func level() string {
	switch {
	case hasAVX512:
		return "avx512"
	case hasAVX2:
		return "avx2"
	}
	return "go"
}
