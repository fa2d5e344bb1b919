# SPDX-License-Identifier: Apache-2.0
# Debian packages, by `cpack`. They are the same every time for one SOURCE_DATE_EPOCH and one build folder.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The kinesis-sidecar authors <noreply@kinesis-sidecar.invalid>")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "${PROJECT_HOMEPAGE_URL}")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME lib${name}${soversion})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "The shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libkinesis-sidecar-client-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "lib${name}${soversion} (= ${PROJECT_VERSION}), libcurl4-openssl-dev | libcurl4-gnutls-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS libsqlite3-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Headers and static libraries, also those for tests of an app and for SQLite.")

include(CPack)
