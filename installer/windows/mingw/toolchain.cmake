# CMake: compile for 64-bit Windows 10 with the mingw-w64 compiler of a Linux distribution.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_VERSION 10)
set(CMAKE_SYSTEM_PROCESSOR AMD64)

# The variants named -posix have C++'s own threads; where there is one variant only, it has them.
set(triple x86_64-w64-mingw32)
find_program(CMAKE_C_COMPILER NAMES ${triple}-gcc-posix ${triple}-gcc REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES ${triple}-g++-posix ${triple}-g++ REQUIRED)
find_program(CMAKE_RC_COMPILER NAMES ${triple}-windres REQUIRED)

set(CMAKE_FIND_ROOT_PATH /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

# Windows aligns the stack to 16 bytes only, and the compiler trusts it for wider vectors: the assembler puts the
# moves that stand any address in place of the ones that end the program.
set(for_windows_10 "-D_WIN32_WINNT=0x0A00 -DWINVER=0x0A00 -Wa,-muse-unaligned-vector-move")
set(CMAKE_C_FLAGS_INIT "${for_windows_10} -include \"${CMAKE_CURRENT_LIST_DIR}/lacking.h\"")
set(CMAKE_CXX_FLAGS_INIT "${for_windows_10} -Wa,-mbig-obj")

# The same source gives the same bytes; names for debuggers are left out.
foreach(kind SHARED MODULE EXE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT "-s -Wl,--no-insert-timestamp")
endforeach()
