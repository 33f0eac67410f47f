// Go's runtime takes random bytes from bcryptprimitives.dll, which some versions of Wine lack. Tests under
// Wine put this in its place; it is in no package.
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) { return SystemFunction036(buffer, (ULONG)length); }
