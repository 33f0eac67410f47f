//go:build arm64 && !purego

#include "textflag.h"

// UADDLP has no name in this assembler: pairs of n-bit lanes add up in lanes of 2n bits.
#define UADDLP_B(src, dst) WORD $(0x6e202800 | (src)<<5 | (dst))
#define UADDLP_H(src, dst) WORD $(0x6e602800 | (src)<<5 | (dst))
#define UADDLP_S(src, dst) WORD $(0x6ea02800 | (src)<<5 | (dst))

// FADDP adds neighbours of two registers of four float32.
#define FADDP_S4(b, a, dst) WORD $(0x6e20d400 | (b)<<16 | (a)<<5 | (dst))

// CMHS (unsigned, at least) on lanes of 64 bits.
#define CMHS_D2(b, a, dst) WORD $(0x6ee03c00 | (b)<<16 | (a)<<5 | (dst))

// XTN keeps the low halves of the lanes: two of 64 bits, or four of 32.
#define XTN_S2(src, dst) WORD $(0x0ea12800 | (src)<<5 | (dst))
#define XTN2_S4(src, dst) WORD $(0x4ea12800 | (src)<<5 | (dst))
#define XTN_H4(src, dst) WORD $(0x0e612800 | (src)<<5 | (dst))
#define XTN2_H8(src, dst) WORD $(0x4e612800 | (src)<<5 | (dst))

// SSHLL and SSHLL2 by 0 widen eight bytes with their signs to words.
#define SXTL_H8(src, dst) WORD $(0x0f08a400 | (src)<<5 | (dst))
#define SXTL2_H8(src, dst) WORD $(0x4f08a400 | (src)<<5 | (dst))

// SMLAL and SMLAL2 add products of four words, with their signs, to four lanes of 32 bits.
#define SMLAL_S4(b, a, dst) WORD $(0x0e608000 | (b)<<16 | (a)<<5 | (dst))
#define SMLAL2_S4(b, a, dst) WORD $(0x4e608000 | (b)<<16 | (a)<<5 | (dst))

// func dotNEON(a, b *float32, n int) float32
// n is a multiple of 4.
TEXT ·dotNEON(SB), NOSPLIT, $0-28
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	SUBS $16, R2
	BLT  rest

four:
	VLD1.P 64(R0), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R1), [V16.S4, V17.S4, V18.S4, V19.S4]
	VFMLA V4.S4, V16.S4, V0.S4
	VFMLA V5.S4, V17.S4, V1.S4
	VFMLA V6.S4, V18.S4, V2.S4
	VFMLA V7.S4, V19.S4, V3.S4
	SUBS $16, R2
	BGE  four

rest:
	ADDS $12, R2 // n - 4
	BLT  sum

one:
	VLD1.P 16(R0), [V4.S4]
	VLD1.P 16(R1), [V16.S4]
	VFMLA V4.S4, V16.S4, V0.S4
	SUBS $4, R2
	BGE  one

sum:
	FADDP_S4(1, 0, 0)
	FADDP_S4(3, 2, 2)
	FADDP_S4(2, 0, 0)
	FADDP_S4(0, 0, 0)
	FADDP_S4(0, 0, 0)
	FMOVS F0, ret+24(FP)
	RET

// func scanNEON(q *uint64, words int, codes *uint64, blocks int, limit int, dist *uint16, near *uint64)
//
// A block of eight codes takes four registers of two. A byte holds the counts of 31 words.
// limit is at least 0.
TEXT ·scanNEON(SB), NOSPLIT, $0-56
	MOVD q+0(FP), R0
	MOVD words+8(FP), R1
	MOVD codes+16(FP), R2
	MOVD blocks+24(FP), R3
	MOVD limit+32(FP), R4
	MOVD dist+40(FP), R5
	MOVD near+48(FP), R6
	VDUP R4, V31.D2
	MOVD $31, R10

block:
	VEOR V0.B16, V0.B16, V0.B16 // counts of codes 0 and 1
	VEOR V1.B16, V1.B16, V1.B16 // 2 and 3
	VEOR V2.B16, V2.B16, V2.B16 // 4 and 5
	VEOR V3.B16, V3.B16, V3.B16 // 6 and 7
	MOVD R0, R7
	MOVD R1, R8

group:
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	CMP  R10, R8
	CSEL LT, R8, R10, R9 // the smaller of what is left and 31
	SUB  R9, R8, R8

word:
	VLD1R.P 8(R7), [V16.D2]
	VLD1.P 64(R2), [V17.B16, V18.B16, V19.B16, V20.B16]
	VEOR V16.B16, V17.B16, V17.B16
	VEOR V16.B16, V18.B16, V18.B16
	VEOR V16.B16, V19.B16, V19.B16
	VEOR V16.B16, V20.B16, V20.B16
	VCNT V17.B16, V17.B16
	VCNT V18.B16, V18.B16
	VCNT V19.B16, V19.B16
	VCNT V20.B16, V20.B16
	VADD V17.B16, V4.B16, V4.B16
	VADD V18.B16, V5.B16, V5.B16
	VADD V19.B16, V6.B16, V6.B16
	VADD V20.B16, V7.B16, V7.B16
	SUBS $1, R9
	BNE  word

	UADDLP_B(4, 4)
	UADDLP_B(5, 5)
	UADDLP_B(6, 6)
	UADDLP_B(7, 7)
	UADDLP_H(4, 4)
	UADDLP_H(5, 5)
	UADDLP_H(6, 6)
	UADDLP_H(7, 7)
	UADDLP_S(4, 4)
	UADDLP_S(5, 5)
	UADDLP_S(6, 6)
	UADDLP_S(7, 7)
	VADD V4.D2, V0.D2, V0.D2
	VADD V5.D2, V1.D2, V1.D2
	VADD V6.D2, V2.D2, V2.D2
	VADD V7.D2, V3.D2, V3.D2
	CBNZ R8, group

	// Eight counts of 64 bits become eight of 16.
	XTN_S2(0, 21)
	XTN2_S4(1, 21)
	XTN_S2(2, 22)
	XTN2_S4(3, 22)
	XTN_H4(21, 23)
	XTN2_H8(22, 23)
	VST1.P [V23.H8], 16(R5)

	CMHS_D2(0, 31, 4) // limit is at least the count
	CMHS_D2(1, 31, 5)
	CMHS_D2(2, 31, 6)
	CMHS_D2(3, 31, 7)
	VMOV V4.D[0], R11
	VMOV V4.D[1], R12
	AND  $1, R11, R13
	AND  $2, R12, R12
	ORR  R12, R13, R13
	VMOV V5.D[0], R11
	VMOV V5.D[1], R12
	AND  $4, R11, R11
	AND  $8, R12, R12
	ORR  R11, R13, R13
	ORR  R12, R13, R13
	VMOV V6.D[0], R11
	VMOV V6.D[1], R12
	AND  $16, R11, R11
	AND  $32, R12, R12
	ORR  R11, R13, R13
	ORR  R12, R13, R13
	VMOV V7.D[0], R11
	VMOV V7.D[1], R12
	AND  $64, R11, R11
	AND  $128, R12, R12
	ORR  R11, R13, R13
	ORR  R12, R13, R13
	MOVB.P R13, 1(R6)
	SUBS $1, R3
	BNE  block
	RET

// func dotBytesNEON(q *int16, rows *int8, n int, out *int32, count int)
// n is a multiple of 32.
TEXT ·dotBytesNEON(SB), NOSPLIT, $0-40
	MOVD q+0(FP), R4
	MOVD rows+8(FP), R1
	MOVD n+16(FP), R5
	MOVD out+24(FP), R3
	MOVD count+32(FP), R6

row:
	MOVD R4, R0
	MOVD R5, R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

two:
	VLD1.P 32(R1), [V4.B16, V5.B16]
	VLD1.P 64(R0), [V16.H8, V17.H8, V18.H8, V19.H8]
	SXTL_H8(4, 6)
	SXTL2_H8(4, 7)
	SXTL_H8(5, 20)
	SXTL2_H8(5, 21)
	SMLAL_S4(16, 6, 0)
	SMLAL2_S4(16, 6, 1)
	SMLAL_S4(17, 7, 2)
	SMLAL2_S4(17, 7, 3)
	SMLAL_S4(18, 20, 0)
	SMLAL2_S4(18, 20, 1)
	SMLAL_S4(19, 21, 2)
	SMLAL2_S4(19, 21, 3)
	SUBS $32, R2
	BNE  two
	VADD V1.S4, V0.S4, V0.S4
	VADD V3.S4, V2.S4, V2.S4
	VADD V2.S4, V0.S4, V0.S4
	VADDV V0.S4, V0
	FMOVS F0, (R3)
	ADD  $4, R3
	SUBS $1, R6
	BNE  row
	RET
