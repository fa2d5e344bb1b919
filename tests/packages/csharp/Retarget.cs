// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using Mono.Cecil;

/// <summary>
/// IN OUT FACADE: makes a library of mono's compiler a library for .NET Standard 2.0, the same bytes for the same
/// source. Its references to mscorlib and System.* become one to netstandard. FACADE is the netstandard.dll of mono,
/// whose types it may use.
/// </summary>
public static class Retarget
{
    public static int Main(string[] arguments)
    {
        var standard = ModuleDefinition.ReadModule(arguments[2]);
        var known = new HashSet<string>(standard.ExportedTypes.Select(type => type.FullName));
        var module = ModuleDefinition.ReadModule(arguments[0]);
        var reference = AssemblyNameReference.Parse(standard.Assembly.FullName);
        foreach (var type in module.GetTypeReferences().Where(type => type.Scope is AssemblyNameReference).ToList())
        {
            if (!known.Contains(type.FullName))
            {
                Console.Error.WriteLine("retarget: .NET Standard 2.0 has no " + type.FullName);
                return 1;
            }
            type.Scope = reference;
        }
        module.AssemblyReferences.Clear();
        module.AssemblyReferences.Add(reference);
        module.Write(arguments[1], new WriterParameters { DeterministicMvid = true, Timestamp = 0 });
        return 0;
    }
}
