package sandbox

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"io"
)

// repeatable returns an endless stream of bytes that depends only on seed, for replays: AES in
// counter mode.
func repeatable(seed [8]byte) io.Reader {
	key := sha256.Sum256(seed[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key size is correct
	}
	return cipher.StreamReader{S: cipher.NewCTR(block, make([]byte, aes.BlockSize)), R: zeroes{}}
}

type zeroes struct{}

// Read implements io.Reader.
func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
