/*
 * dlopen and dlmopen as programs see them. Both end in a jump to the C library's function, so that it finds the original
 * return address: the loader takes the caller's RPATH, $ORIGIN and namespace from it.
 */
    .text

    .p2align 4
    .globl dlopen
    .type dlopen, @function
dlopen:
    .cfi_startproc
    endbr64
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    call torpor_dlopen_file
    popq %rsi
    .cfi_adjust_cfa_offset -8
    movq %rax, %rdi
    jmp *torpor_next_dlopen(%rip)
    .cfi_endproc
    .size dlopen, . - dlopen

    .p2align 4
    .globl dlmopen
    .type dlmopen, @function
dlmopen:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call torpor_dlmopen_file
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    movq %rax, %rsi
    jmp *torpor_next_dlmopen(%rip)
    .cfi_endproc
    .size dlmopen, . - dlmopen

    .section .note.GNU-stack, "", @progbits
