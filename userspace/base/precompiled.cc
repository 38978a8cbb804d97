// Gives the precompiled headers of CMakeLists.txt a target to belong to.
