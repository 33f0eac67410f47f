package storage

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"

	"helix/backend/fault"
)

// A recovery code is the root key in 24 groups of 4 hexadecimal digits. Three groups hold 4
// bytes of the key and 2 bytes of checksum over them and their place, so a mistake can be narrowed
// down to three groups, and groups in the wrong order are detected.
const (
	recoveryGroups = 24
	recoveryBlock  = 4 // bytes of key
	recoverySum    = 2 // bytes of checksum
)

// RecoveryCode returns the recovery code of a root key.
func RecoveryCode(root []byte) string {
	raw := make([]byte, 0, recoveryGroups*2)
	for i := 0; i < len(root); i += recoveryBlock {
		raw = append(raw, root[i:i+recoveryBlock]...)
		raw = append(raw, recoveryChecksum(i/recoveryBlock, root[i:i+recoveryBlock])...)
	}
	text := strings.ToUpper(hex.EncodeToString(raw))
	groups := make([]string, 0, recoveryGroups)
	for i := 0; i < len(text); i += 4 {
		groups = append(groups, text[i:i+4])
	}
	return strings.Join(groups, "-")
}

// parseRecoveryCode parses a recovery code as typed: in any case, with any separators, O for 0 and
// I or L for 1. A wrong code is Invalid, with a message that names the groups to check.
func parseRecoveryCode(code string) ([]byte, error) {
	var digits []byte
	for _, c := range strings.ToUpper(code) {
		switch {
		case c >= '0' && c <= '9' || c >= 'A' && c <= 'F':
			digits = append(digits, byte(c))
		case c == 'O':
			digits = append(digits, '0')
		case c == 'I' || c == 'L':
			digits = append(digits, '1')
		case strings.ContainsRune(" -–—_.,:\t\r\n\u00a0", c):
		default:
			return nil, fault.Invalidf("A recovery code contains only the digits 0 to 9 and the letters A to F.")
		}
		if len(digits) > recoveryGroups*4 {
			break
		}
	}
	if len(digits) != recoveryGroups*4 {
		return nil, fault.Invalidf("A recovery code has %d groups of 4 characters; this one has %d characters.", recoveryGroups, len(digits)).
			WithDetails(map[string]int{"characters": len(digits), "expected": recoveryGroups * 4})
	}
	raw := make([]byte, recoveryGroups*2)
	if _, err := hex.Decode(raw, digits); err != nil {
		return nil, fault.Invalidf("This is not a recovery code.").WithCause(err)
	}
	root := make([]byte, 0, RootKeySize)
	var wrong []string
	for i := 0; i < RootKeySize/recoveryBlock; i++ {
		b := raw[i*(recoveryBlock+recoverySum):][:recoveryBlock+recoverySum]
		if subtle.ConstantTimeCompare(b[recoveryBlock:], recoveryChecksum(i, b[:recoveryBlock])) == 0 {
			wrong = append(wrong, fmt.Sprintf("%d to %d", i*3+1, i*3+3))
		}
		root = append(root, b[:recoveryBlock]...)
	}
	if wrong != nil {
		return nil, fault.Invalidf("The recovery code is wrong. Check groups %s.", strings.Join(wrong, ", ")).
			WithDetails(map[string]any{"groups": wrong})
	}
	return root, nil
}

func recoveryChecksum(place int, block []byte) []byte {
	sum := sha256.Sum256(append([]byte{'h', 'e', 'l', 'i', 'x', '/', 'r', 'e', 'c', '/', '1', byte(place)}, block...))
	return sum[:recoverySum]
}
